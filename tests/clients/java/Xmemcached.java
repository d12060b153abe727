// The usual operations of xmemcached over the text and the binary protocol, each with the answer that it must give.

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.command.TextCommandFactory;

public final class Xmemcached {
    private static final Answers ANSWERS = new Answers("xmemcached");
    /** It has no items of its own, and speaks no binary. */
    private static final boolean IS_ROUTER = System.getenv("ROUTER") != null;

    private static void check(String what, Object got, Object want) {
        ANSWERS.check(what, got, want);
    }

    public static void main(String[] args) {
        ANSWERS.finish(() -> {
            run(args, false);
            if (!IS_ROUTER) {
                run(args, true);
            }
        });
    }

    private static void run(String[] args, boolean binary) throws Exception {
        InetSocketAddress address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        XMemcachedClientBuilder builder = new XMemcachedClientBuilder(List.of(address));
        builder.setCommandFactory(binary ? new BinaryCommandFactory() : new TextCommandFactory());
        builder.setOpTimeout(10_000);
        MemcachedClient client = builder.build();
        client.flushAll();
        storing(client);
        counting(client);
        many(client);
        check("stats", client.stats(address).containsKey(IS_ROUTER ? "cmd_get_count" : "curr_items"), true);
        check("versions", client.getVersions().size(), 1);
        if (binary) {
            check("get and touch", client.getAndTouch("x:b", 100), "w");
            check("get and touch of nothing", client.getAndTouch("x:none", 100), null);
        }
        client.shutdown();
    }

    private static void storing(MemcachedClient client) throws Exception {
        check("set", client.set("x:a", 100, "one"), true);
        check("get", client.get("x:a"), "one");
        check("get of nothing", client.get("x:none"), null);
        check("add on something", client.add("x:a", 100, "x"), false);
        check("add", client.add("x:b", 100, "x"), true);
        check("replace", client.replace("x:a", 100, "two"), true);
        check("replace of nothing", client.replace("x:none", 100, "two"), false);
        check("append", client.append("x:a", "+"), true);
        check("prepend", client.prepend("x:a", "-"), true);
        check("get after", client.get("x:a"), "-two+");
        check("set list", client.set("x:l", 100, new ArrayList<>(Arrays.asList(1, 2, 3))), true);
        check("get list", client.get("x:l"), Arrays.asList(1, 2, 3));
        byte[] large = new byte[400_000];
        Arrays.fill(large, (byte) 9);
        check("set bytes", client.set("x:large", 100, large), true);
        check("get bytes", client.get("x:large"), large);
        GetsResponse<String> seen = client.gets("x:b");
        check("gets", seen.getValue(), "x");
        check("cas", client.cas("x:b", 100, "y", seen.getCas()), true);
        check("cas again", client.cas("x:b", 100, "z", seen.getCas()), false);
        check("get after cas", client.get("x:b"), "y");
        check("touch", client.touch("x:b", 100), true);
        check("delete", client.delete("x:a"), true);
        check("delete again", client.delete("x:a"), false);
        client.setWithNoReply("x:b", 100, "w");
        check("get after a set without reply", client.get("x:b"), "w");
        client.deleteWithNoReply("x:l");
        check("get after a delete without reply", client.get("x:l"), null);
    }

    private static void counting(MemcachedClient client) throws Exception {
        check("set number", client.set("x:n", 100, "42"), true);
        check("incr", client.incr("x:n", 8), 50L);
        check("decr", client.decr("x:n", 49), 1L);
        check("incr with a beginning", client.incr("x:m", 1, 7), 7L);
        check("incr after it", client.incr("x:m", 1, 7), 8L);
    }

    private static void many(MemcachedClient client) throws Exception {
        List<String> keys = new ArrayList<>();
        for (int n = 0; n < 1_000; n++) {
            keys.add("x:k" + n);
            client.setWithNoReply("x:k" + n, 100, "v" + n);
        }
        // What is asked for on the same connection comes after what was set.
        Map<String, String> got = client.get(keys);
        check("1000 keys in bulk", got.size(), 1_000);
        check("one of them", got.get("x:k777"), "v777");
        Map<String, GetsResponse<String>> uniques = client.gets(keys.subList(0, 100));
        check("100 keys with uniques", uniques.size(), 100);
    }
}
