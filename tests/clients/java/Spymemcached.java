// The usual operations of spymemcached over the text and the binary protocol, each with the answer that it must give.

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;

public final class Spymemcached {
    private static final Answers ANSWERS = new Answers("spymemcached");
    /** It has no items of its own, and speaks no binary. */
    private static final boolean IS_ROUTER = System.getenv("ROUTER") != null;

    private static void check(String what, Object got, Object want) {
        ANSWERS.check(what, got, want);
    }

    private static <T> T of(Future<T> future) throws Exception {
        return future.get(10, TimeUnit.SECONDS);
    }

    public static void main(String[] args) {
        ANSWERS.finish(() -> {
            run(args, Protocol.TEXT);
            if (!IS_ROUTER) {
                run(args, Protocol.BINARY);
            }
        });
    }

    private static void run(String[] args, Protocol protocol) throws Exception {
        InetSocketAddress address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        MemcachedClient client = new MemcachedClient(
            new ConnectionFactoryBuilder().setProtocol(protocol).setOpTimeout(10_000).build(),
            List.of(address));
        check("flush", of(client.flush()), true);
        storing(client);
        counting(client);
        many(client);
        check("stats", client.getStats().get(address).containsKey(IS_ROUTER ? "cmd_get_count" : "curr_items"), true);
        check("versions", client.getVersions().size(), 1);
        client.shutdown(5, TimeUnit.SECONDS);
    }

    private static void storing(MemcachedClient client) throws Exception {
        check("set", of(client.set("s:a", 100, "one")), true);
        check("get", client.get("s:a"), "one");
        check("get of nothing", client.get("s:none"), null);
        check("add on something", of(client.add("s:a", 100, "x")), false);
        check("add", of(client.add("s:b", 100, "x")), true);
        check("replace", of(client.replace("s:a", 100, "two")), true);
        check("append", of(client.append("s:a", "+")), true);
        check("prepend", of(client.prepend("s:a", "-")), true);
        check("get after", client.get("s:a"), "-two+");
        check("set list", of(client.set("s:l", 100, new ArrayList<>(Arrays.asList(1, 2, 3)))), true);
        check("get list", client.get("s:l"), Arrays.asList(1, 2, 3));
        byte[] large = new byte[400_000];
        Arrays.fill(large, (byte) 9);
        check("set bytes", of(client.set("s:large", 100, large)), true);
        check("get bytes", client.get("s:large"), large);
        CASValue<Object> seen = client.gets("s:b");
        check("gets", seen.getValue(), "x");
        check("cas", client.cas("s:b", seen.getCas(), "y"), CASResponse.OK);
        check("cas again", client.cas("s:b", seen.getCas(), "z"), CASResponse.EXISTS);
        check("cas of nothing", client.cas("s:none", seen.getCas(), "z"), CASResponse.NOT_FOUND);
        check("touch", of(client.touch("s:b", 100)), true);
        check("delete", of(client.delete("s:b")), true);
        check("delete again", of(client.delete("s:b")), false);
    }

    private static void counting(MemcachedClient client) throws Exception {
        check("set number", of(client.set("s:n", 100, "42")), true);
        check("incr", client.incr("s:n", 8), 50L);
        check("decr", client.decr("s:n", 49), 1L);
        check("incr of nothing", client.incr("s:none", 1), -1L);
        check("incr with a beginning", client.incr("s:m", 1, 7), 7L);
        check("incr after it", client.incr("s:m", 1, 7), 8L);
    }

    private static void many(MemcachedClient client) throws Exception {
        List<Future<Boolean>> sets = new ArrayList<>();
        List<String> keys = new ArrayList<>();
        for (int n = 0; n < 1_000; n++) {
            keys.add("s:k" + n);
            sets.add(client.set("s:k" + n, 100, "v" + n));
        }
        boolean all = true;
        for (Future<Boolean> set : sets) {
            all &= of(set);
        }
        check("1000 sets", all, true);
        Map<String, Object> got = client.getBulk(keys);
        check("1000 keys in bulk", got.size(), 1_000);
        check("one of them", got.get("s:k777"), "v777");
    }
}
