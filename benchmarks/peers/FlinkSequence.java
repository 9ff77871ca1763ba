// SEQ(E1, …, EL) [with negated components] WITHIN W in Flink CEP. Prints the number of matches and the seconds.
//
//   FlinkSequence FILE COLUMNS LENGTH WINDOW KEYS NEGATIONS CONDITIONS PARALLELISM LOOP
//
// FILE holds rows of COLUMNS big-endian longs: time, number of the type, attr1, attr2, … KEYS are attribute numbers,
// NEGATIONS places, CONDITIONS as e1.attr3<e2.attr3; all three are separated by commas and may be empty. With a LOOP,
// each event is followed by the next that fits, and the component of that number comes one or more times (0: none does);
// without one (-1), by any that fits.

import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.RichAndCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public final class FlinkSequence {
    static final int WARM_UP = 50_000;
    static final long PART = 1L << 30; // a map takes no more than 2 GB
    static LongBuffer rows; // the source of the one JVM that runs everything: no file is read while the clock runs
    static int columns;

    public static final class Event {
        public long time;
        public long type;
        public long[] attributes;

        long attribute(int number) {
            return attributes[number - 1];
        }
    }

    public static void main(String[] arguments) throws Exception {
        columns = Integer.parseInt(arguments[1]);
        try (FileChannel file = FileChannel.open(Path.of(arguments[0]))) {
            rows = LongBuffer.allocate(Math.toIntExact(file.size() / Long.BYTES));
            for (long from = 0; from < file.size(); from += PART) {
                long length = Math.min(PART, file.size() - from);
                rows.put(file.map(FileChannel.MapMode.READ_ONLY, from, length).asLongBuffer());
            }
        }
        int events = rows.capacity() / columns;
        run(Math.min(events, WARM_UP), arguments);
        JobExecutionResult result = run(events, arguments);
        System.out.println(result.getAccumulatorResult("matches") + " " + result.getNetRuntime() / 1000.0);
    }

    static JobExecutionResult run(int events, String[] arguments) throws Exception {
        int[] keys = numbers(arguments[4]);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.getConfig().enableObjectReuse();
        environment.setParallelism(Integer.parseInt(arguments[7]));
        int types = Integer.parseInt(arguments[2]) + numbers(arguments[5]).length;
        DataStream<Event> relevant = environment.fromSequence(0, events - 1).setParallelism(1)
            .map(FlinkSequence::event).setParallelism(1).returns(Event.class)
            .filter(event -> event.type <= types).setParallelism(1)
            .assignTimestampsAndWatermarks(WatermarkStrategy.<Event>forMonotonousTimestamps()
                .withTimestampAssigner((event, before) -> event.time)).setParallelism(1)
            .keyBy(event -> Arrays.stream(keys).mapToLong(event::attribute).reduce(0, (hash, key) -> hash << 21 ^ key));
        CEP.pattern(relevant, pattern(arguments)).process(new PatternProcessFunction<Event, Long>() {
            @Override
            public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
                out.collect(1L);
            }
        }).map(new Count()).sinkTo(new DiscardingSink<>());
        return environment.execute();
    }

    static org.apache.flink.cep.pattern.Pattern<Event, ?> pattern(String[] arguments) {
        int length = Integer.parseInt(arguments[2]);
        int[] negations = numbers(arguments[5]);
        int loop = Integer.parseInt(arguments[8]);
        var pattern = org.apache.flink.cep.pattern.Pattern.<Event>begin("e1").where(fills(1, arguments[6]));
        for (int number = 2; number <= length; number++) {
            for (int n = 0; n < negations.length; n++) {
                if (negations[n] == number - 1) {
                    pattern = pattern.notFollowedBy("n" + (n + 1)).where(fills(length + n + 1, ""));
                }
            }
            pattern = loop < 0 ? pattern.followedByAny("e" + number) : pattern.followedBy("e" + number);
            pattern = pattern.where(fills(number, arguments[6]));
            if (number == loop) {
                pattern = pattern.oneOrMore().greedy();
            }
        }
        return pattern.within(Duration.ofMillis(Long.parseLong(arguments[3])));
    }

    /** The type, and the conditions that can be decided when this event comes. */
    static IterativeCondition<Event> fills(int type, String conditions) {
        Matcher found = Pattern.compile("e(\\d+)\\.attr(\\d+)([<>])(?:e(\\d+)\\.attr)?(\\d+)").matcher(conditions);
        IterativeCondition<Event> all = SimpleCondition.of(event -> event.type == type);
        while (found.find()) {
            int right = found.group(4) == null ? 0 : Integer.parseInt(found.group(4));
            var compare = new Compare(Integer.parseInt(found.group(1)), Integer.parseInt(found.group(2)),
                found.group(3).equals("<"), right, Integer.parseInt(found.group(5)), type);
            if (Math.max(compare.left, right) == type) {
                all = new RichAndCondition<>(all, compare);
            }
        }
        return all;
    }

    /** An attribute of one event against that of another one or, where `right` is 0, against a number. */
    static final class Compare extends IterativeCondition<Event> {
        final int left, leftAttribute, right, rightAttribute, here;
        final boolean less;

        Compare(int left, int leftAttribute, boolean less, int right, int rightAttribute, int here) {
            this.left = left;
            this.leftAttribute = leftAttribute;
            this.less = less;
            this.right = right;
            this.rightAttribute = rightAttribute;
            this.here = here;
        }

        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            long a = value(left, leftAttribute, event, context);
            long b = right == 0 ? rightAttribute : value(right, rightAttribute, event, context);
            return less ? a < b : a > b;
        }

        private long value(int of, int attribute, Event event, Context<Event> context) throws Exception {
            Event bound = of == here ? event : context.getEventsForPattern("e" + of).iterator().next();
            return bound.attribute(attribute);
        }
    }

    static Event event(long number) {
        Event event = new Event();
        int at = (int) number * columns;
        event.time = rows.get(at);
        event.type = rows.get(at + 1);
        event.attributes = new long[columns - 2];
        rows.get(at + 2, event.attributes);
        return event;
    }

    static int[] numbers(String list) {
        return list.isEmpty() ? new int[0] : Arrays.stream(list.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    static final class Count extends RichMapFunction<Long, Long> {
        private final LongCounter matches = new LongCounter();

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("matches", matches);
        }

        @Override
        public Long map(Long one) {
            matches.add(one);
            return one;
        }
    }
}
