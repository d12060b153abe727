"""The usual operations of pymemcache and python-memcached, each with the answer that it must give."""

import os
import sys
import time

import memcache
from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheServerError

from answers import Checks

host, port = sys.argv[1], int(sys.argv[2])
is_router = "ROUTER" in os.environ


def pymemcache_checks():
    check = Checks("pymemcache")
    client = Client((host, port), default_noreply=False, timeout=10)
    client.flush_all()
    check.equal("set", client.set("p:a", b"1"), True)
    check.equal("get", client.get("p:a"), b"1")
    check.equal("get of nothing", client.get("p:none", default=b"d"), b"d")
    check.equal("add on something", client.add("p:a", b"2"), False)
    check.equal("add", client.add("p:b", b"2"), True)
    check.equal("replace", client.replace("p:a", b"3"), True)
    check.equal("replace of nothing", client.replace("p:none", b"3"), False)
    check.equal("append", client.append("p:a", b"4"), True)
    check.equal("prepend", client.prepend("p:a", b"2"), True)
    check.equal("get after", client.get("p:a"), b"234")
    check.equal("get_many", client.get_many(["p:a", "p:none", "p:b"]), {"p:a": b"234", "p:b": b"2"})
    check.equal("set_many", client.set_many({f"p:m{n}": str(n) for n in range(200)}), [])
    many = client.get_many([f"p:m{n}" for n in range(200)])
    check.equal("get_many of 200", many, {f"p:m{n}": str(n).encode() for n in range(200)})
    value, cas = client.gets("p:a")
    check.equal("gets", value, b"234")
    check.equal("cas", client.cas("p:a", b"5", cas), True)
    check.equal("cas again", client.cas("p:a", b"6", cas), False)
    check.equal("cas of nothing", client.cas("p:none", b"6", cas), None)
    check.equal("incr", client.incr("p:a", 10), 15)
    check.equal("decr", client.decr("p:a", 20), 0)
    check.equal("incr of nothing", client.incr("p:none", 1), None)
    check.equal("touch", client.touch("p:a", 100), True)
    check.equal("touch of nothing", client.touch("p:none", 100), False)
    check.equal("delete", client.delete("p:a"), True)
    check.equal("delete again", client.delete("p:a"), False)
    check.equal("noreply set", client.set("p:n", b"x", noreply=True), True)
    check.equal("get after noreply", client.get("p:n"), b"x")
    client.set("p:ttl", b"x", expire=1)
    for _ in range(40):
        if client.get("p:ttl") is None:
            break
        time.sleep(0.1)
    check.equal("expiry", client.get("p:ttl"), None)
    check.equal("version", client.version().count(b".") >= 1, True)
    stats = client.stats()
    if is_router:
        check.equal("stats of a router", int(stats[b"cmd_get_count"]) > 20, True)
    else:
        check.equal("stats", stats[b"curr_items"] > 200, True)
        check.equal("stats settings", b"maxbytes" in client.stats("settings"), True)
    large = bytes(range(256)) * 3000
    check.equal("large set", client.set("p:large", large), True)
    check.equal("large get", client.get("p:large"), large)
    try:
        answer = client.set("p:large", b"x" * (2 << 20))
    except MemcacheServerError as error:
        answer = str(error)
    check.equal("too large", "object too large for cache" in str(answer), True)
    check.equal("in step after it", client.get("p:b"), b"2")
    if not is_router:
        check.equal("cache_memlimit", client.cache_memlimit(256), True)
    pool = PooledClient((host, port), max_pool_size=4, timeout=10)
    check.equal("pooled set", pool.set("p:pool", b"x", noreply=False), True)
    check.equal("pooled get", pool.get("p:pool"), b"x")
    check.equal("flush_all", client.flush_all(), True)
    check.equal("get after flush", client.get("p:b"), None)
    client.quit()
    return check.finish()


def python_memcached_checks():
    check = Checks("python-memcached")
    client = memcache.Client([f"{host}:{port}"], socket_timeout=10, cache_cas=True)
    client.flush_all()
    check.equal("set str", client.set("q:s", "text"), True)
    check.equal("get str", client.get("q:s"), "text")
    check.equal("set int", client.set("q:i", 42), True)
    check.equal("get int", client.get("q:i"), 42)
    check.equal("set object", client.set("q:o", {"a": [1, 2]}), True)
    check.equal("get object", client.get("q:o"), {"a": [1, 2]})
    check.equal("compressed", client.set("q:z", "z" * 100_000, min_compress_len=100), True)
    check.equal("get compressed", client.get("q:z"), "z" * 100_000)
    check.equal("incr", client.incr("q:i"), 43)
    check.equal("decr", client.decr("q:i", 3), 40)
    check.equal("add", bool(client.add("q:i", 1)), False)
    check.equal("replace", bool(client.replace("q:i", 1)), True)
    check.equal("append", bool(client.append("q:s", "!")), True)
    check.equal("prepend", bool(client.prepend("q:s", "!")), True)
    check.equal("get appended", client.get("q:s"), "!text!")
    check.equal("set_multi", client.set_multi({"q:1": 1, "q:2": 2}), [])
    check.equal("get_multi", client.get_multi(["q:1", "q:2", "q:3"]), {"q:1": 1, "q:2": 2})
    check.equal("delete_multi", bool(client.delete_multi(["q:1", "q:2"])), True)
    check.equal("get after", client.get("q:1"), None)
    check.equal("gets", client.gets("q:i"), 1)
    check.equal("cas", bool(client.cas("q:i", 2)), True)
    check.equal("touch", bool(client.touch("q:i", 100)), True)
    check.equal("delete", bool(client.delete("q:i")), True)
    check.equal("get_stats", len(client.get_stats()) == 1, True)
    if not is_router:
        check.equal("get_slab_stats", len(client.get_slab_stats()) == 1, True)
    client.disconnect_all()
    return check.finish()


sys.exit(1 if pymemcache_checks() + python_memcached_checks() else 0)
