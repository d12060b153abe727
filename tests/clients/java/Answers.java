// Counts what a client was answered as it must be, and says what it was not.

import java.util.Objects;

final class Answers {
    private final String client;
    private int passed;
    private int failed;

    Answers(String client) {
        this.client = client;
    }

    interface Run {
        void run() throws Exception;
    }

    void check(String what, Object got, Object want) {
        if (Objects.deepEquals(got, want)) {
            passed++;
            return;
        }
        failed++;
        System.out.println("  " + client + ": " + what + ": got " + got + ", want " + want);
    }

    // Runs all checks and ends the process: the client's threads would keep it for ever.
    void finish(Run checks) {
        try {
            checks.run();
        } catch (Exception error) {
            System.out.println("  " + client + ": " + error);
            failed++;
        }
        System.out.println(client + ": " + passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
