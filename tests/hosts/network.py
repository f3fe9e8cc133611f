"""Test hosts: network namespaces on one switch that is in a namespace of its own, so no packet can leave them."""

import ipaddress
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREFIX = "shardproof-"
INTERFACE = "eth0"
"""What a host calls its only link."""


@dataclass(frozen=True)
class Host:
    """A namespace with one link: `address` on its own end, `port` at the switch."""

    name: str
    address: str
    port: str


@dataclass(frozen=True)
class Network:
    """Hosts on one switch; made of names and addresses only."""

    switch: str
    hosts: tuple[Host, ...]
    prefix_length: int


def planned(count, owner, subnet="10.213.7.0/24"):
    """Names and private addresses of `count` hosts; `owner` is the process that makes and removes them."""
    net = ipaddress.ip_network(subnet)
    if not net.is_private or not 0 < count <= net.num_addresses - 2:
        raise ValueError(f"Expected a private subnet with room for {count} hosts, got subnet={subnet!r}.")
    names = (f"{PREFIX}{owner}-host{index}" for index in range(count))
    hosts = (Host(name, str(net[index + 1]), f"port{index}") for index, name in enumerate(names))
    return Network(f"{PREFIX}{owner}-switch", tuple(hosts), net.prefixlen)


def commands(network):
    """The ip commands that make a network, as argument lists."""
    switch = network.switch
    made = [f"netns add {switch}", f"-n {switch} link add name bridge0 type bridge", f"-n {switch} link set bridge0 up"]
    for host in network.hosts:
        made += [
            f"netns add {host.name}",
            # Both ends are made inside namespaces, so the machine itself never has an interface of this network.
            f"-n {switch} link add name {host.port} type veth peer name {INTERFACE} netns {host.name}",
            f"-n {switch} link set {host.port} master bridge0",
            f"-n {switch} link set {host.port} up",
            f"-n {host.name} address add {host.address}/{network.prefix_length} dev {INTERFACE}",
            f"-n {host.name} link set {INTERFACE} addrgenmode none",
            f"-n {host.name} link set {INTERFACE} up",
            f"-n {host.name} link set lo up",
        ]
    return [each.split() for each in made]


def namespaces(network):
    return [network.switch, *(host.name for host in network.hosts)]


def why_not():
    """Why this machine cannot make test hosts; None when it can."""
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "test hosts are network namespaces, and making those needs root"
    if shutil.which("ip") is None:
        return "test hosts need the ip command of iproute2"
    probe = f"{PREFIX}{os.getpid()}-probe"
    try:
        ip("netns", "add", probe)
        ip("-n", probe, "link", "add", "name", "probe0", "type", "veth", "peer", "name", "probe1")
    except RuntimeError as error:
        return f"this machine does not let root make network namespaces: {error}"
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return None


def ip(*arguments):
    """Run one ip command; its output, or a RuntimeError with what it said."""
    ran = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20, check=False)
    if ran.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {ran.stderr.strip()}")
    return ran.stdout


@contextmanager
def running(network):
    """Make the network; remove it and everything that runs in it in the end, however that comes."""
    remove_leftovers()
    try:
        for each in commands(network):
            ip(*each)
        yield network
    finally:
        for name in namespaces(network):
            remove(name)


def cut_off(network, host):
    """Take the host's link down: packets vanish without an answer, as from a machine that lost its cable."""
    ip("-n", network.switch, "link", "set", host.port, "down")


def remove(name):
    """End what runs in a namespace and delete it; its links go with it."""
    if name not in existing():
        return
    # Until none is left, since a process that is ended may have started another one just before.
    for _ in range(50):
        pids = [int(pid) for pid in ip("netns", "pids", name).split()]
        if not pids:
            break
        for pid in pids:
            _kill(pid)
        time.sleep(0.05)
    ip("netns", "del", name)


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def existing():
    """The namespaces of these tests that exist, of whichever process."""
    names = (line.split()[0] for line in ip("netns", "list").splitlines() if line.strip())
    return [name for name in names if name.startswith(PREFIX)]


def remove_leftovers():
    """Remove what a process left that was itself killed before it could clean up."""
    for name in existing():
        owner = name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove(name)
