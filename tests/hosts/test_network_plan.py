"""Names and addresses of the test hosts, and their judges; nothing is made here, so no root is needed."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts.four_hosts import CALLS, HOSTS, check_faults, check_right
from tests.hosts.network import commands, namespaces, planned


@given(st.integers(1, 60), st.integers(1, 4_194_304), st.sampled_from(["10.213.7.0/24", "192.168.9.64/26"]))
def test_addresses_are_private_and_different(count, owner, subnet):
    """Also: names that Linux accepts, and nothing that would be made outside a namespace."""
    network = planned(count, owner, subnet)
    addresses = [ipaddress.ip_address(host.address) for host in network.hosts]
    assert len(set(addresses)) == count
    net = ipaddress.ip_network(subnet)
    assert all(each in net and each.is_private for each in addresses)
    assert not {net.network_address, net.broadcast_address} & set(addresses)
    assert len(set(namespaces(network))) == count + 1
    assert all(len(host.port) <= 15 for host in network.hosts)
    inside = [each for each in commands(network) if each[:2] != ["netns", "add"]]
    assert all(each[0] == "-n" and each[1] in namespaces(network) for each in inside)
    assert all("route" not in each for each in inside)


@pytest.mark.parametrize(("count", "subnet"), [(0, "10.0.0.0/24"), (3, "10.0.0.0/30"), (2, "8.8.8.0/24")])
def test_no_room_or_public_addresses_are_refused(count, subnet):
    with pytest.raises(ValueError, match="private subnet with room"):
        planned(count, 1, subnet)


def seen_by(rank, **changes):
    call = {"norm": 5.0, "expected": 5.0, "clipped": True} | changes
    return {"rank": rank, "calls": [call] * (1 + CALLS), "bytes_sent": 900, "links": ["eth0", "lo"]}


def test_the_judge_of_right_calls_rejects_wrong_ones():
    """A wrong norm, wrong gradients, a missing call, nothing sent over the link, another link, a rank twice."""
    right = [seen_by(rank) for rank in range(HOSTS)]
    check_right(right)
    wrong = [
        seen_by(1, norm=5.000000000000001),
        seen_by(1, clipped=False),
        seen_by(1) | {"calls": []},
        seen_by(1) | {"bytes_sent": 0},
        seen_by(1) | {"links": ["eth0", "eth1", "lo"]},
        seen_by(2),
    ]
    for each in wrong:
        with pytest.raises(AssertionError):
            check_right([right[0], each, *right[2:]])


def test_the_judge_of_faults_rejects_wrong_ones():
    """No error, another error, touched gradients, another rank named, or one named besides."""
    fault = {"error": "ParticipationError", "untouched": True, "text": "ranks [2] do not answer"}
    check_faults([fault], 2, store_lost=False)
    for change in (
        {"error": ""},
        {"error": "DisagreementError"},
        {"untouched": False},
        {"text": "ranks [1] do not answer"},
        {"text": "ranks [1, 2] do not answer"},
    ):
        with pytest.raises(AssertionError):
            check_faults([fault | change], 2, store_lost=False)
    with pytest.raises(AssertionError):
        check_faults([fault], 2, store_lost=True)
