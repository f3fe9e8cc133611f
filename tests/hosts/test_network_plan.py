"""Names and addresses of the test hosts; nothing is made here, so no root is needed."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
