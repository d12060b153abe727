"""Web servers that look aside: they ask the cache, on a miss the database, and fill; who changes a value deletes its key.

Keys are asked by zipf's law. Each key belongs to one worker, which does one thing after the other: so no fill races with
a change, and whatever is read and older than the database is the fleet's fault.
"""

import bisect
import itertools
import random
import socket
import threading
import time

TICK_S = 0.25


class Load:
    """Workers over the router at `address`, so many operations a second of all together."""

    def __init__(self, address, keys, rate, workers, seed):
        self.address = address
        self.counts = {}
        self.lock = threading.Lock()
        self.is_running = True
        self.began = time.monotonic()
        weights = [1 / (rank + 1) ** 0.99 for rank in range(keys)]
        whole = sum(weights)
        self.threads = []
        for n in range(workers):
            own = list(range(n, keys, workers))
            share = sum(weights[rank] for rank in own)
            cumulated = list(itertools.accumulate(weights[rank] for rank in own))
            worker = Worker(self, own, cumulated, rate * share / whole, random.Random(seed * 1000 + n))
            self.threads.append(threading.Thread(target=worker.run, daemon=True))
        for thread in self.threads:
            thread.start()

    def count(self, what):
        tick = int((time.monotonic() - self.began) / TICK_S)
        with self.lock:
            self.counts[tick, what] = self.counts.get((tick, what), 0) + 1

    def sum(self, what, begin_s, end_s):
        ticks = range(round(begin_s / TICK_S), round(end_s / TICK_S))
        with self.lock:
            return sum(self.counts.get((tick, what), 0) for tick in ticks)

    def now(self):
        return time.monotonic() - self.began

    def stop(self):
        self.is_running = False
        for thread in self.threads:
            thread.join()


class Worker:
    """Owns keys, and what the database has of them."""

    def __init__(self, load, keys, cumulated, rate, random):
        self.load, self.keys, self.cumulated, self.random = load, keys, cumulated, random
        self.pause = 1 / rate
        self.versions = dict.fromkeys(keys, 1)
        self.socket = socket.create_connection(load.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(30)
        self.reader = self.socket.makefile("rb")

    def run(self):
        # As after long: of a key's gets so many find it changed as are changes.
        for key in self.keys:
            if self.random.random() > CHANGES:
                self.fill(key)
        due = time.monotonic()
        while self.load.is_running:
            # Who was held up doesn't catch up: a web server has so many requests at once.
            due = max(due + self.pause, time.monotonic() - self.pause)
            time.sleep(max(0, min(due - time.monotonic(), 0.5)))
            if due > time.monotonic():
                continue
            at = bisect.bisect(self.cumulated, self.random.random() * self.cumulated[-1])
            key = self.keys[min(at, len(self.keys) - 1)]
            if self.random.random() < CHANGES:
                self.change(key)
            else:
                self.read(key)

    def read(self, key):
        self.load.count("gets")
        line = self.ask(f"get key{key}\r\n")
        if line.startswith(b"VALUE "):
            version = int(self.reader.readline())
            self.reader.readline()
            self.load.count("hits")
            if version < self.versions[key]:
                self.load.count("stale")
            return
        self.load.count("queries")
        if line == b"END\r\n":
            self.fill(key)

    def fill(self, key):
        value = str(self.versions[key])
        self.ask(f"set key{key} 0 0 {len(value)}\r\n{value}\r\n")

    def change(self, key):
        self.versions[key] += 1
        self.ask(f"delete key{key}\r\n")

    def ask(self, request):
        self.load.count("requests")
        self.socket.sendall(request.encode())
        line = self.reader.readline()
        if b"ERROR" in line or not line:
            self.load.count("errors")
        return line


CHANGES = 0.1
