"""python-binary-memcached and pylibmc over the binary protocol, each answer against the one it must be."""

import sys

import bmemcached
import pylibmc

from answers import Checks

host, port = sys.argv[1], int(sys.argv[2])


def bmemcached_checks():
    check = Checks("python-binary-memcached")
    client = bmemcached.Client((f"{host}:{port}",))
    check.equal("flush_all", client.flush_all(), True)
    check.equal("set", client.set("b:a", "one"), True)
    check.equal("get", client.get("b:a"), "one")
    check.equal("get of nothing", client.get("b:none"), None)
    check.equal("add on something", client.add("b:a", "x"), False)
    check.equal("add", client.add("b:b", "x"), True)
    check.equal("replace", client.replace("b:a", "two"), True)
    check.equal("replace of nothing", client.replace("b:none", "x"), False)
    value, cas = client.gets("b:a")
    check.equal("gets", value, "two")
    check.equal("cas", client.cas("b:a", "three", cas), True)
    check.equal("cas again", client.cas("b:a", "four", cas), False)
    check.equal("set object", client.set("b:o", {"a": [1, 2]}), True)
    check.equal("get object", client.get("b:o"), {"a": [1, 2]})
    check.equal("set large", client.set("b:l", b"\x00" * 900_000, compress_level=0), True)
    check.equal("get large", client.get("b:l"), b"\x00" * 900_000)
    check.equal("incr creates", client.incr("b:n", 5, default=40), 40)
    check.equal("incr", client.incr("b:n", 5), 45)
    check.equal("decr", client.decr("b:n", 100), 0)
    many = {f"b:m{n}": n for n in range(1000)}
    check.equal("set_multi", client.set_multi(many), [])
    check.equal("get_multi", client.get_multi([*many, "b:none"]), many)
    check.equal("delete_multi", client.delete_multi(list(many)), True)
    check.equal("get_multi of nothing", client.get_multi(list(many)), {})
    check.equal("delete", client.delete("b:a"), True)
    check.equal("stats", int(client.stats()[f"{host}:{port}"]["curr_items"]) >= 4, True)
    client.disconnect_all()
    return check.finish()


def pylibmc_checks():
    check = Checks("pylibmc, binary")
    client = pylibmc.Client([f"{host}:{port}"], binary=True, behaviors={"cas": True})
    check.equal("flush_all", client.flush_all(), True)
    check.equal("set", client.set("l:a", "one"), True)
    check.equal("get", client.get("l:a"), "one")
    check.equal("get of nothing", client.get("l:none"), None)
    check.equal("add on something", client.add("l:a", "x"), False)
    check.equal("add", client.add("l:b", "x"), True)
    check.equal("replace", client.replace("l:a", "two"), True)
    check.equal("append", client.append("l:a", "+"), True)
    check.equal("prepend", client.prepend("l:a", "-"), True)
    value, cas = client.gets("l:a")
    check.equal("gets", value, "-two+")
    check.equal("cas", client.cas("l:a", "three", cas), True)
    check.equal("cas again", client.cas("l:a", "four", cas), False)
    check.equal("touch", client.touch("l:a", 100), True)
    check.equal("set number", client.set("l:n", 41), True)
    check.equal("incr", client.incr("l:n", 9), 50)
    check.equal("decr", client.decr("l:n", 49), 1)
    check.equal("set large", client.set("l:l", b"\x01" * 900_000), True)
    check.equal("get large", client.get("l:l"), b"\x01" * 900_000)
    many = {f"l:m{n}": n for n in range(1000)}
    check.equal("set_multi", client.set_multi(many), [])
    check.equal("get_multi", client.get_multi([*many, "l:none"]), many)
    check.equal("delete_multi", client.delete_multi(list(many)), True)
    check.equal("delete", client.delete("l:a"), True)
    check.equal("delete again", client.delete("l:a"), False)
    check.equal("get_stats", "curr_items" in client.get_stats()[0][1], True)
    client.disconnect_all()
    return check.finish()


sys.exit(1 if bmemcached_checks() + pylibmc_checks() else 0)
