import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;

/** A thread, or as many as asked, burns CPU time in `grind`, called by `serve`; others wait: for a lock, for time. */
public class Burning {
    private static volatile boolean busy;
    private static volatile long result;
    private static volatile long rounds;

    static long grind(long rounds) {
        long x = rounds | 1;
        for (long i = 0; i < rounds; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
        }
        return x;
    }

    static void serve() {
        result += grind(1_000_000L);
        rounds++;
    }

    private static void start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void waitForEver(Object lock) {
        synchronized (lock) {
            while (true) {
                try {
                    lock.wait();
                } catch (InterruptedException error) {
                    return;
                }
            }
        }
    }

    private static void rest() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void work() {
        try {
            Path thread = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName();
            System.out.println("{\"tid\": " + thread + ", \"function\": \"Burning.grind\"}");
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
        while (true) {
            if (busy) {
                serve();
            } else {
                rest();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 4; i++) {
            Object lock = new Object();
            start("waiter-" + i, () -> waitForEver(lock));
        }
        for (int i = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1; i > 0; i--) {
            start("grinder", Burning::work);
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            if (line.equals("count")) {
                System.out.println(rounds);
            } else {
                busy = line.equals("busy");
            }
        }
        System.exit(0);
    }
}
