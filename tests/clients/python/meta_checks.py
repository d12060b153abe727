"""meta-memcache, which speaks meta only, and Django's two cache backends, each answer against the one it must be."""

import sys

import django
from django.conf import settings
from meta_memcache import CacheClient
from meta_memcache.configuration import (
    LeasePolicy, RecachePolicy, ServerAddress, StalePolicy, connection_pool_factory_builder,
)
from meta_memcache.protocol import Key

from answers import Checks

host, port = sys.argv[1], int(sys.argv[2])


def meta_checks():
    check = Checks("meta-memcache")
    client = CacheClient.cache_client_from_servers(
        [ServerAddress(host=host, port=port)], connection_pool_factory_builder()
    )
    for key in ["a", "n", "l", "s", "none", *(f"m{n}" for n in range(100))]:
        client.invalidate(Key(f"meta:{key}"))
    a = Key("meta:a")
    check.equal("set", client.set(a, {"any": "value"}, ttl=100), True)
    check.equal("get", client.get(a), {"any": "value"})
    check.equal("get of nothing", client.get(Key("meta:none")), None)
    check.equal("a key that is no ASCII", client.set(Key("meta:ä b"), "x", ttl=100), True)
    check.equal("and its value", client.get(Key("meta:ä b")), "x")
    check.equal("touch", client.touch(a, ttl=200), True)
    check.equal("touch of nothing", client.touch(Key("meta:none"), ttl=200), False)
    value, cas = client.get_cas(a)
    check.equal("get_cas", value, {"any": "value"})
    check.equal("cas", client.set(a, "new", ttl=100, cas_token=cas), True)
    check.equal("cas again", client.set(a, "newer", ttl=100, cas_token=cas), False)
    many = {f"meta:m{n}": n for n in range(100)}
    check.equal("sets", all(client.set(Key(k), v, ttl=100) for k, v in many.items()), True)
    got = client.multi_get([Key(k) for k in [*many, "meta:none"]])
    check.equal("multi_get", {k.key: v for k, v in got.items()}, many | {"meta:none": None})
    n = Key("meta:n")
    check.equal("delta of nothing", client.delta(n, 1), False)
    check.equal("delta that creates", client.delta_initialize_and_get(n, 1, 40, 100), 40)
    check.equal("delta up", client.delta_and_get(n, 5), 45)
    check.equal("delta down", client.delta_and_get(n, -4), 41)
    lease = LeasePolicy(ttl=30, miss_retries=1, miss_retry_wait=0.01)
    key = Key("meta:l")
    check.equal("a lease", client.get_or_lease(key, lease), None)
    check.equal("its value", client.set(key, "filled", ttl=100), True)
    check.equal("the next", client.get_or_lease(key, lease), "filled")
    stale = StalePolicy(mark_stale_on_deletion_ttl=30)
    key = Key("meta:s")
    client.set(key, "old", ttl=100)
    check.equal("made stale", client.invalidate(key, stale_policy=stale), True)
    check.equal("who wins has to fill", client.get(key, recache_policy=RecachePolicy(ttl=30)), None)
    check.equal("the others get the old", client.get(key, recache_policy=RecachePolicy(ttl=30)), "old")
    check.equal("delete", client.delete(a), True)
    check.equal("delete again", client.delete(a), False)
    return check.finish()


def django_checks(backend):
    from django.core.cache import caches

    check = Checks(f"Django {backend}")
    cache = caches[backend]
    cache.clear()
    check.equal("set", cache.set("a", [1, 2]), None)
    check.equal("get", cache.get("a"), [1, 2])
    check.equal("get of nothing", cache.get("none", "default"), "default")
    check.equal("add", (cache.add("a", 1), cache.add("b", 1)), (False, True))
    check.equal("has_key", "a" in cache, True)
    check.equal("incr, decr", (cache.incr("b", 9), cache.decr("b", 4)), (10, 6))
    check.equal("set_many", cache.set_many({f"m{n}": n for n in range(200)}), [])
    check.equal("get_many", cache.get_many([f"m{n}" for n in range(201)]), {f"m{n}": n for n in range(200)})
    check.equal("get_or_set", cache.get_or_set("c", lambda: "made"), "made")
    check.equal("versions", (cache.set("v", 1, version=2), cache.get("v"), cache.get("v", version=2)), (None, None, 1))
    check.equal("touch", (cache.touch("a", 100), cache.touch("none", 100)), (True, False))
    cache.set("gone", 1, timeout=0)
    check.equal("a timeout of 0", cache.get("gone"), None)
    cache.set("large", "x")
    try:
        cache.set("large", "a" * 2 * 1024 * 1024)
    except Exception:
        pass
    check.equal("a failed set removes", cache.get("large"), None)
    check.equal("delete", (cache.delete("a"), cache.delete("a")), (True, False))
    cache.delete_many([f"m{n}" for n in range(200)])
    check.equal("delete_many", cache.get_many([f"m{n}" for n in range(200)]), {})
    cache.close()
    return check.finish()


backends = ["PyMemcacheCache", "PyLibMCCache"]
settings.configure(CACHES={
    name: {
        "BACKEND": f"django.core.cache.backends.memcached.{name}",
        "LOCATION": f"{host}:{port}",
        "KEY_PREFIX": name,
    }
    for name in ["default", *backends] if name != "default"
} | {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}})
django.setup()
sys.exit(1 if meta_checks() + sum(django_checks(b) for b in backends) else 0)
