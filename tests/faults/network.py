"""A router's host and its servers', as network namespaces: what goes wrong between them goes wrong in a real kernel.

    hub ── h0 ─ middle ─ server 0       the one that things happen to: its link can be cut and delayed
     ├──── h1 ─ server 1
     └──── …                            a namespace and a link each

Everything has the prefix of this process, and is gone after `close`. Needs root, and `ip` of iproute2.
"""

import ctypes
import fcntl
import heapq
import os
import select
import socket
import struct
import subprocess
import threading
import time

CLONE_NEWNET = 0x40000000
SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 23, 3
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Network:
    """The namespaces `hub`, `middle` and `server0` … of `hosts` servers."""

    def __init__(self, hosts):
        self.prefix = f"guira-{os.getpid()}-"
        self.hosts = hosts
        self.names = ["hub", "middle"] + [f"server{n}" for n in range(hosts)]
        self.delay = None
        try:
            for name in self.names:
                command("ip", "netns", "add", self.prefix + name)
                self.ip(name, "link", "set", "lo", "up")
            for n in range(hosts):
                self.link(n)
        except BaseException:
            self.close()
            raise

    def link(self, n):
        hub, server = f"h{n}", f"s{n}"
        if n == 0:
            self.pair("hub", hub, "middle", "near")
            self.pair("middle", "far", f"server{n}", server)
            self.ip("middle", "link", "add", "bridge", "type", "bridge")
            self.ip("middle", "link", "set", "bridge", "up")
            self.bridge(True)
            inside(self.prefix + "hub", whole_frames, hub)
            inside(self.prefix + f"server{n}", whole_frames, server)
        else:
            self.pair("hub", hub, f"server{n}", server)
        self.ip("hub", "addr", "add", f"10.99.{n}.1/30", "dev", hub)
        self.ip(f"server{n}", "addr", "add", f"{self.address(n)}/30", "dev", server)

    def pair(self, near, near_name, far, far_name):
        command("ip", "link", "add", near_name, "netns", self.prefix + near, "type", "veth",
                "peer", "name", far_name, "netns", self.prefix + far)
        for name, device in [(near, near_name), (far, far_name)]:
            self.ip(name, "link", "set", device, "up")

    def ip(self, name, *words):
        command("ip", "-n", self.prefix + name, *words)

    def bridge(self, is_whole):
        for device in ["near", "far"]:
            port = ["master", "bridge"] if is_whole else ["nomaster"]
            self.ip("middle", "link", "set", device, *port)

    @staticmethod
    def address(n):
        return f"10.99.{n}.2"

    def start(self, name, words, **options):
        """A process in a namespace: `ip netns exec` becomes it."""
        return subprocess.Popen(["ip", "netns", "exec", self.prefix + name, *words], **options)

    def cut(self, is_cut):
        """Parts server 0 from everybody: nothing arrives, and nobody is told."""
        self.bridge(not is_cut)

    def start_delay(self, seconds):
        """Each frame to and from server 0 takes so much longer."""
        self.bridge(False)
        self.delay = Delay(self.prefix + "middle", seconds)

    def stop_delay(self):
        self.delay.close()
        self.delay = None
        self.bridge(True)

    def close(self):
        if self.delay:
            self.delay.close()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self.prefix + name], capture_output=True)


class Delay:
    """Carries frames between `near` and `far` of a namespace, each a while after it came.

    Written out because the kernels that tests run on are often built without netem.
    """

    def __init__(self, namespace, seconds):
        self.seconds = seconds
        self.is_open = True
        self.sockets = []
        self.thread = threading.Thread(target=self.run, args=[namespace], daemon=True)
        self.thread.start()

    def run(self, namespace):
        enter(namespace)
        for device in ["near", "far"]:
            packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            packets.bind((device, 0))
            packets.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            packets.setblocking(False)
            self.sockets.append(packets)
        due, number = [], 0
        while self.is_open:
            pause = min(0.05, max(0, due[0][0] - time.monotonic())) if due else 0.05
            for source in select.select(self.sockets, [], [], pause)[0]:
                frame = source.recv(1 << 17)
                number += 1
                target = self.sockets[1 - self.sockets.index(source)]
                heapq.heappush(due, (time.monotonic() + self.seconds, number, target, frame))
            while due and due[0][0] <= time.monotonic():
                _, _, target, frame = heapq.heappop(due)
                try:
                    target.send(frame)
                except OSError:
                    pass  # Longer than the device takes, or the device is gone: lost, as on a wire.

    def close(self):
        self.is_open = False
        self.thread.join()
        for packets in self.sockets:
            packets.close()


def whole_frames(device):
    """Has a device send frames with checksums, one at a time, so that others than the kernel can carry them."""
    value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def inside(namespace, act, *arguments):
    """Does something on a thread of its own in a namespace; what it raises comes out."""
    raised = []

    def run():
        try:
            enter(namespace)
            act(*arguments)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def enter(namespace):
    """Moves the calling thread, and those that it starts from now on, to a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(handle, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"can't enter {namespace}")
    finally:
        os.close(handle)
