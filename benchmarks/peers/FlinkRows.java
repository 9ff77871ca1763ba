// A statement of Flink SQL over rows in memory. Prints the number of its rows and the seconds.
//
//   FlinkRows FILE STATEMENT PARALLELISM
//
// FILE holds rows of four big-endian longs, sorted by the second: k, ts in milliseconds, price, page. The statement reads
// a table `ticks` with these columns and the event time `rowtime`.

import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

public final class FlinkRows {
    static final int WARM_UP = 10_000;
    static final int COLUMNS = 4;
    static LongBuffer rows; // the source of the one JVM that runs everything: no file is read while the clock runs

    public static void main(String[] arguments) throws Exception {
        try (FileChannel file = FileChannel.open(Path.of(arguments[0]))) {
            LongBuffer mapped = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size()).asLongBuffer();
            rows = LongBuffer.allocate(mapped.remaining()).put(mapped);
        }
        int count = rows.capacity() / COLUMNS;
        run(Math.min(count, WARM_UP), arguments);
        JobExecutionResult result = run(count, arguments);
        System.out.println(result.getAccumulatorResult("found") + " " + result.getNetRuntime() / 1000.0);
    }

    static JobExecutionResult run(int count, String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.getConfig().enableObjectReuse();
        environment.setParallelism(Integer.parseInt(arguments[2]));
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        DataStream<Row> ticks = environment.fromSequence(0, count - 1).setParallelism(1)
            .map(FlinkRows::row).setParallelism(1)
            .returns(Types.ROW_NAMED(new String[] {"k", "ts", "price", "page"},
                Types.LONG, Types.LONG, Types.LONG, Types.LONG))
            .assignTimestampsAndWatermarks(WatermarkStrategy.<Row>forMonotonousTimestamps()
                .withTimestampAssigner((row, before) -> (Long) row.getField(1))).setParallelism(1);
        Schema schema = Schema.newBuilder().columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)")
            .watermark("rowtime", "SOURCE_WATERMARK()").build();
        tables.createTemporaryView("ticks", ticks, schema);
        tables.toDataStream(tables.sqlQuery(arguments[1])).map(new Count()).sinkTo(new DiscardingSink<>());
        return environment.execute();
    }

    static Row row(long number) {
        int at = (int) number * COLUMNS;
        return Row.of(rows.get(at), rows.get(at + 1), rows.get(at + 2), rows.get(at + 3));
    }

    static final class Count extends RichMapFunction<Row, Row> {
        private final LongCounter found = new LongCounter();

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("found", found);
        }

        @Override
        public Row map(Row row) {
            found.add(1);
            return row;
        }
    }
}
