import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.JavaConverters;

/** Start, end and heartbeat of one device per key, and nothing else: how fast the same engine is without Python. */
public final class Yardstick {
  private static final StructType CHANGE = StructType.fromDDL(
      "device_id STRING, session_id BIGINT, account_id STRING, platform STRING, change STRING, "
      + "started_ms BIGINT, processed_ms BIGINT, duration_ms BIGINT, due_ms BIGINT, ingested_ms BIGINT");

  private Yardstick() {}

  /** Events (device_id, session_id, is_start, event_ms, account_id, platform, ingested_ms) -> changes. */
  public static Dataset<Row> changes(Dataset<Row> events, long heartbeatMs) {
    return events
        .groupByKey((MapFunction<Row, String>) event -> event.getString(0), Encoders.STRING())
        .transformWithState(new Sessions(heartbeatMs), TimeMode.ProcessingTime(), OutputMode.Update(), Encoders.row(CHANGE));
  }

  /** A live session. */
  public static final class Session implements java.io.Serializable {
    private long startedMs;
    private long openedMs;
    private String accountId;
    private String platform;

    public long getStartedMs() { return startedMs; }
    public void setStartedMs(long value) { startedMs = value; }
    public long getOpenedMs() { return openedMs; }
    public void setOpenedMs(long value) { openedMs = value; }
    public String getAccountId() { return accountId; }
    public void setAccountId(String value) { accountId = value; }
    public String getPlatform() { return platform; }
    public void setPlatform(String value) { platform = value; }
  }

  private static final class Sessions extends StatefulProcessor<String, Row, Row> {
    private final long heartbeatMs;
    private transient MapState<Long, Session> sessions;

    Sessions(long heartbeatMs) {
      this.heartbeatMs = heartbeatMs;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
      sessions = getHandle().getMapState("sessions", Encoders.LONG(), Encoders.bean(Session.class), TTLConfig.NONE());
    }

    @Override
    public Iterator<Row> handleInputRows(String device, Iterator<Row> events, TimerValues clock) {
      long nowMs = clock.getCurrentProcessingTimeInMs();
      boolean wasLive = sessions.exists();
      List<Row> changes = new ArrayList<>();
      while (events.hasNext()) {
        Row event = events.next();
        long id = event.getLong(1);
        if (event.getBoolean(2)) {
          Session session = new Session();
          session.setStartedMs(event.getLong(3));
          session.setOpenedMs(nowMs);
          session.setAccountId(event.getString(4));
          session.setPlatform(event.getString(5));
          sessions.updateValue(id, session);
          changes.add(change(device, id, session, "started", nowMs, 0L, null, event.getLong(6)));
        } else if (sessions.containsKey(id)) {
          Session session = sessions.getValue(id);
          sessions.removeKey(id);
          changes.add(change(device, id, session, "ended", nowMs, event.getLong(3) - session.getStartedMs(), null, event.getLong(6)));
        }
      }
      boolean isLive = sessions.exists();
      if (isLive && !wasLive) {
        getHandle().registerTimer(next(device, nowMs));
      } else if (wasLive && !isLive) {
        getHandle().deleteTimer(next(device, nowMs));
      }
      return JavaConverters.asScalaIterator(changes.iterator());
    }

    @Override
    public Iterator<Row> handleExpiredTimer(String device, TimerValues clock, ExpiredTimerInfo timer) {
      long nowMs = clock.getCurrentProcessingTimeInMs();
      List<Row> changes = new ArrayList<>();
      Iterator<scala.Tuple2<Long, Session>> live = sessions.iterator();
      while (live.hasNext()) {
        scala.Tuple2<Long, Session> one = live.next();
        changes.add(change(
            device, one._1(), one._2(), "heartbeat", nowMs, nowMs - one._2().getOpenedMs(), timer.getExpiryTimeInMs(), null));
      }
      if (!changes.isEmpty()) {
        getHandle().registerTimer(next(device, nowMs));
      }
      return JavaConverters.asScalaIterator(changes.iterator());
    }

    /** The device's next instant: every device has its own phase. */
    private long next(String device, long nowMs) {
      long phase = Math.floorMod(device.hashCode(), heartbeatMs);
      return (Math.floorDiv(nowMs - phase, heartbeatMs) + 1) * heartbeatMs + phase;
    }

    private static Row change(String device, long id, Session session, String kind, long nowMs, long durationMs, Long dueMs, Long ingestedMs) {
      return RowFactory.create(
          device, id, session.getAccountId(), session.getPlatform(), kind, session.getStartedMs(), nowMs, durationMs,
          dueMs, ingestedMs);
    }
  }
}
