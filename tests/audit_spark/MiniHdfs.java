import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** Starts a NameNode and a DataNode in the given folder, and prints the NameNode's address. Stops when the input ends. */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setBoolean("dfs.permissions.enabled", false);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(arguments[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("hdfs://127.0.0.1:" + cluster.getNameNodePort());
        while (System.in.read() >= 0) { }
        cluster.shutdown(true);
        System.exit(0);
    }
}
