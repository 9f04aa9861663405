import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Decides questions by Kafka's StandardAuthorizer.
 *
 * Input: the number of cases; each is the super users, whether everyone is allowed where there is no ACL, the ACLs and
 * the questions, the last two behind their number. Output: one byte for each question, 1 if it is allowed. Strings are
 * a length and UTF-8.
 */
public class AuthorizerOracle {
    private record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "oracle";
        }

        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        OutputStream out = new BufferedOutputStream(System.out);
        int cases = in.readInt();
        for (int index = 0; index < cases; index++) {
            decideCase(in, out);
        }
        out.flush();
    }

    private static void decideCase(DataInputStream in, OutputStream out) throws IOException {
        try (Metrics metrics = new Metrics(); StandardAuthorizer authorizer = new StandardAuthorizer()) {
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
            Map<String, Object> settings = new HashMap<>();
            settings.put("super.users", readString(in));
            settings.put("allow.everyone.if.no.acl.found", String.valueOf(in.readBoolean()));
            authorizer.configure(settings);
            Map<Uuid, StandardAcl> acls = new HashMap<>();
            int aclCount = in.readInt();
            for (int index = 0; index < aclCount; index++) {
                acls.put(new Uuid(1, index), readAcl(in));
            }
            authorizer.loadSnapshot(acls);
            authorizer.completeInitialLoad();
            int questionCount = in.readInt();
            for (int index = 0; index < questionCount; index++) {
                out.write(decide(in, authorizer) == AuthorizationResult.ALLOWED ? 1 : 0);
            }
        }
    }

    private static StandardAcl readAcl(DataInputStream in) throws IOException {
        ResourceType type = ResourceType.fromCode(in.readByte());
        String name = readString(in);
        PatternType pattern = PatternType.fromCode(in.readByte());
        String principal = readString(in);
        String host = readString(in);
        AclOperation operation = AclOperation.fromCode(in.readByte());
        return new StandardAcl(
            type, name, pattern, principal, host, operation, AclPermissionType.fromCode(in.readByte()));
    }

    private static AuthorizationResult decide(DataInputStream in, StandardAuthorizer authorizer) throws IOException {
        boolean aboutType = in.readBoolean();
        KafkaPrincipal principal = new KafkaPrincipal(readString(in), readString(in));
        Asker asker = new Asker(principal, InetAddress.getByName(readString(in)));
        AclOperation operation = AclOperation.fromCode(in.readByte());
        ResourceType type = ResourceType.fromCode(in.readByte());
        String name = readString(in);
        if (aboutType) {
            return authorizer.authorizeByResourceType(asker, operation, type);
        }
        ResourcePattern resource = new ResourcePattern(type, name, PatternType.LITERAL);
        return authorizer.authorize(asker, List.of(new Action(operation, resource, 1, true, false))).get(0);
    }

    private static String readString(DataInputStream in) throws IOException {
        return new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
    }
}
