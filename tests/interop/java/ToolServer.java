import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one Java, which saves the second that each would need to start.
 *
 * Arguments: the port, and the process without which this one ends. A request is the number of words and the words
 * (class, then arguments); the answer is the exit code, standard output and standard error. Strings are a length and
 * UTF-8. What a tool does after it asked for its end does not happen: its thread never goes on.
 */
public class ToolServer {
    public static void main(String[] arguments) throws IOException {
        long parent = Long.parseLong(arguments[1]);
        Thread watch = new Thread(() -> endWith(parent));
        watch.setDaemon(true);
        watch.start();
        try (ServerSocket server =
                new ServerSocket(Integer.parseInt(arguments[0]), 50, InetAddress.getLoopbackAddress())) {
            while (true) {
                try (Socket client = server.accept()) {
                    answer(new DataInputStream(client.getInputStream()), new DataOutputStream(client.getOutputStream()));
                } catch (IOException gone) {
                    // Whoever asked has given up.
                }
            }
        }
    }

    private static void endWith(long parent) {
        ProcessHandle.of(parent).ifPresent(process -> process.onExit().join());
        Runtime.getRuntime().halt(0);
    }

    private static void answer(DataInputStream in, DataOutputStream out) throws IOException {
        String tool = readString(in);
        String[] arguments = new String[in.readInt()];
        for (int index = 0; index < arguments.length; index++) {
            arguments[index] = readString(in);
        }
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        int code;
        try {
            code = run(tool, arguments);
            System.out.flush();
            System.err.flush();
        } finally {
            System.setOut(realOut);
            System.setErr(realErr);
        }
        out.writeInt(code);
        for (ByteArrayOutputStream each : new ByteArrayOutputStream[] {said, complained}) {
            out.writeInt(each.size());
            each.writeTo(out);
        }
        out.flush();
    }

    private static int run(String tool, String[] arguments) {
        CompletableFuture<Integer> code = new CompletableFuture<>();
        Exit.Procedure end = (status, message) -> {
            if (message != null) {
                System.err.println(message);
            }
            code.complete(status);
            while (true) {
                LockSupport.park();
            }
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Thread thread = new Thread(() -> {
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
                code.complete(0);
            } catch (InvocationTargetException failed) {
                failed.getCause().printStackTrace();
                code.complete(1);
            } catch (ReflectiveOperationException unknown) {
                unknown.printStackTrace();
                code.complete(127);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return code.join();
    }

    private static String readString(DataInputStream in) throws IOException {
        return new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
    }
}
