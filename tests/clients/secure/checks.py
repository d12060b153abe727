"""pymemcache and python-binary-memcached over TLS and with SASL, each answer against the one it must be."""

import ssl
import sys

import bmemcached
from pymemcache.client.base import Client

from answers import Checks

kind, port, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
checks = Checks(f"secure, {kind}")
check = checks.equal


def context(certified=False):
    trusting = ssl.create_default_context(cafile=f"{work}/root.pem")
    if certified:
        trusting.load_cert_chain(f"{work}/client.pem", f"{work}/client.key")
    return trusting


def attempt(what):
    try:
        return what()
    except Exception as error:
        return type(error).__name__


def text(tls):
    client = Client(("localhost", port), default_noreply=False, timeout=10, tls_context=tls)
    check("set", client.set("t:a", b"1"), True)
    check("get", client.get("t:a"), b"1")
    check("get of nothing", client.get("t:none"), None)
    large = b"\x00\xff" * 400_000
    check("set large", client.set("t:l", large), True)
    check("get large", client.get("t:l"), large)
    # memcached 1.6.18 loses its place in what is more than a record.
    many = {f"t:m{n}": b"x" * 100 for n in range(50)}
    check("set_many", client.set_many(many), [])
    check("get_many", client.get_many(many), many)
    check("stats", b"curr_items" in client.stats(), True)
    client.close()


def binary(tls, **login):
    client = bmemcached.Client((f"localhost:{port}",), tls_context=tls, **login)
    check("binary set", client.set("b:a", "one"), True)
    check("binary get", client.get("b:a"), "one")
    check("binary large", (client.set("b:l", "x" * 900_000), len(client.get("b:l"))), (True, 900_000))
    many = {f"b:m{n}": n for n in range(1000)}
    check("binary set_multi", client.set_multi(many), [])
    check("binary get_multi", client.get_multi([*many, "b:none"]), many)
    check("binary delete", client.delete("b:a"), True)
    client.disconnect_all()


def is_closed(tls, **login):
    """Whether a client is refused: no value of its comes back."""
    client = bmemcached.Client((f"localhost:{port}",), tls_context=tls, **login)
    return attempt(lambda: client.set("x", "y")) is not True and attempt(lambda: client.get("x")) != "y"


tls = {"tls": context(), "mtls": context(certified=True), "sasl-tls": context()}.get(kind)
if kind in ("tls", "mtls"):
    text(tls)
    binary(tls)
    foreign = ssl.create_default_context()
    check("an unknown root", isinstance(attempt(lambda: Client(("localhost", port), timeout=10, tls_context=foreign).get("t:a")), str), True)
if kind == "mtls":
    nobody = Client(("localhost", port), timeout=10, tls_context=context())
    check("no certificate", attempt(lambda: nobody.get("t:a")) != b"1", True)
if kind.startswith("sasl"):
    binary(tls, username="user", password="secret")
    check("a wrong password", is_closed(tls, username="user", password="wrong"), True)
    check("a wrong user", is_closed(tls, username="nobody", password="secret"), True)
    check("no login", is_closed(tls), True)
sys.exit(1 if checks.finish() else 0)
