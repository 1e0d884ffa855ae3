import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A thread pool: each line of the standard input is an item, KIND ROUNDS WAIT_MS, as in work.py. */
public class Jobs {
    private static final int HELD_BYTES = 128 << 10;
    private static final long SLOWER_MS = 300;

    /** Whether new threads cannot be had, as when a limit of the system is reached. */
    private static volatile boolean exhausted;

    private static final ThreadLocal<List<ByteBuffer>> leaking = new ThreadLocal<>();
    private static final ThreadLocal<Boolean> slow = ThreadLocal.withInitial(() -> false);
    private static RandomAccessFile output;

    private static void tell(String said) {
        try {
            String[] parts = Files.readSymbolicLink(Path.of("/proc/thread-self")).toString().split("/");
            double ts = System.currentTimeMillis() / 1e3;
            System.out.printf("{\"pid\": %s, \"tid\": %s, \"ts\": %.3f, %s}%n", parts[0], parts[2], ts, said);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] compute(int rounds) {
        byte[] text = new byte[rounds * 8];
        // Python's loop takes about 40 times as long.
        for (int again = 0; again < 40; again++) {
            long x = rounds | 1;
            for (int i = 0; i < rounds; i++) {
                x = x * 6364136223846793005L + 1442695040888963407L;
                for (int j = 0; j < 8; j++) {
                    text[i * 8 + j] = (byte) (x >> (8 * j));
                }
            }
        }
        return text;
    }

    private static void spin(double seconds) {
        long begin = System.nanoTime();
        while ((System.nanoTime() - begin) / 1e9 < seconds) {
            compute(1000);
        }
    }

    private static void stuck() throws InterruptedException {
        Object first = new Object();
        Object second = new Object();
        Thread other = new Thread(() -> {
            synchronized (second) {
                synchronized (first) {
                    return;
                }
            }
        }, "auditor");
        other.setDaemon(true);
        synchronized (first) {
            other.start();
            while (other.getState() != Thread.State.BLOCKED) {
                Thread.sleep(1);
            }
            synchronized (second) {
                return;
            }
        }
    }

    private static void work(String kind, int rounds, double waitMs) {
        if (!kind.equals("serve")) {
            tell("\"fault\": \"" + kind + "\"");
        }
        try {
            switch (kind) {
                case "leak" -> leaking.set(new ArrayList<>());
                case "slow" -> slow.set(true);
                case "spin" -> spin(Double.POSITIVE_INFINITY);
                case "stuck" -> stuck();
                case "spike" -> {
                    spin(waitMs / 1e3);
                    tell("\"over\": \"spike\"");
                    return;
                }
                case "left" -> {
                    exhausted = true;
                    throw new IllegalStateException("cannot go on");
                }
                case "replaced" -> throw new IllegalStateException("cannot go on");
                default -> {
                }
            }
            byte[] text = compute(rounds);
            Thread.sleep((long) waitMs);
            if (slow.get()) {
                Thread.sleep(SLOWER_MS);
            }
            if (leaking.get() != null) {
                ByteBuffer held = ByteBuffer.allocateDirect(HELD_BYTES);
                leaking.get().add(held);
            }
            synchronized (output) {
                output.seek(0);
                output.write(text);
            }
        } catch (InterruptedException | IOException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]);
        Path file = Files.createTempFile("jobs", null);
        output = new RandomAccessFile(file.toFile(), "rw");
        Files.delete(file);
        AtomicInteger numbers = new AtomicInteger();
        ThreadFactory factory = work -> {
            if (exhausted) {
                return null;
            }
            Thread thread = new Thread(work, "worker-" + numbers.incrementAndGet());
            thread.setDaemon(true);
            thread.setUncaughtExceptionHandler((which, error) -> { });
            return thread;
        };
        ThreadPoolExecutor pool =
                new ThreadPoolExecutor(threads, threads, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), factory);
        pool.prestartAllCoreThreads();
        tell("\"ready\": " + threads);
        BufferedReader items = new BufferedReader(new InputStreamReader(System.in));
        for (String line = items.readLine(); line != null; line = items.readLine()) {
            String[] item = line.split(" ");
            pool.execute(() -> work(item[0], Integer.parseInt(item[1]), Double.parseDouble(item[2])));
        }
        System.exit(0);
    }
}
