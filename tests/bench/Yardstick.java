import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.JavaConverters;

/** Only Start, End and heartbeat, with one device per key: measures the speed of the same engine without Python. */
public final class Yardstick {
  private static final StructType CHANGE = StructType.fromDDL(
      "device_id STRING, session_id BIGINT, account_id STRING, platform STRING, change STRING, "
      + "started_ms BIGINT, processed_ms BIGINT, duration_ms BIGINT, due_ms BIGINT, missed_beats INT, ingested_ms BIGINT");

  private Yardstick() {}

  /** Events (device_id, session_id, is_start, event_ms, account_id, platform, ingested_ms) -> changes. */
  public static Dataset<Row> changes(Dataset<Row> events, long heartbeatMs) {
    return events
        .groupByKey((MapFunction<Row, String>) event -> event.getString(0), Encoders.STRING())
        .transformWithState(new Sessions(heartbeatMs), TimeMode.ProcessingTime(), OutputMode.Update(), Encoders.row(CHANGE));
  }

  /** A live session. */
  public static final class Session implements java.io.Serializable {
    private long id;
    private long startedMs;
    private long openedMs;
    private String accountId;
    private String platform;

    public long getId() { return id; }
    public void setId(long value) { id = value; }
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
    private transient ValueState<Session> live;

    Sessions(long heartbeatMs) {
      this.heartbeatMs = heartbeatMs;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
      live = getHandle().getValueState("live", Encoders.bean(Session.class), TTLConfig.NONE());
    }

    @Override
    public Iterator<Row> handleInputRows(String device, Iterator<Row> events, TimerValues clock) {
      long nowMs = clock.getCurrentProcessingTimeInMs();
      Session previous = live.get();
      Session session = previous;
      List<Row> changes = new ArrayList<>();
      while (events.hasNext()) {
        Row event = events.next();
        long id = event.getLong(1);
        if (event.getBoolean(2)) {
          session = new Session();
          session.setId(id);
          session.setStartedMs(event.getLong(3));
          session.setOpenedMs(nowMs);
          session.setAccountId(event.getString(4));
          session.setPlatform(event.getString(5));
          changes.add(change(device, session, "started", nowMs, 0L, null, null, event.getLong(6)));
        } else if (session != null && session.getId() == id) {
          long lastedMs = event.getLong(3) - session.getStartedMs();
          changes.add(change(device, session, "ended", nowMs, lastedMs, null, null, event.getLong(6)));
          session = null;
        }
      }
      if (session != null && session != previous) {
        live.update(session);
      } else if (session == null && previous != null) {
        live.clear();
      }
      if (session != null && previous == null) {
        getHandle().registerTimer(due(device, nowMs) + heartbeatMs);
      } else if (session == null && previous != null) {
        getHandle().deleteTimer(due(device, nowMs) + heartbeatMs);
      }
      return JavaConverters.asScalaIterator(changes.iterator());
    }

    @Override
    public Iterator<Row> handleExpiredTimer(String device, TimerValues clock, ExpiredTimerInfo timer) {
      long nowMs = clock.getCurrentProcessingTimeInMs();
      Session session = live.get();
      if (session == null) {
        return JavaConverters.asScalaIterator(Collections.<Row>emptyIterator());
      }
      long dueMs = due(device, nowMs);
      int missed = (int) ((dueMs - timer.getExpiryTimeInMs()) / heartbeatMs);
      getHandle().registerTimer(dueMs + heartbeatMs);
      Row beat = change(device, session, "heartbeat", nowMs, nowMs - session.getOpenedMs(), dueMs, missed, null);
      return JavaConverters.asScalaIterator(Collections.singletonList(beat).iterator());
    }

    /** The device's newest grid instant; every device has its own phase. */
    private long due(String device, long nowMs) {
      long phase = Math.floorMod(device.hashCode(), heartbeatMs);
      return Math.floorDiv(nowMs - phase, heartbeatMs) * heartbeatMs + phase;
    }

    private static Row change(
        String device, Session session, String kind, long nowMs, long durationMs, Long dueMs, Integer missed, Long ingestedMs) {
      return RowFactory.create(
          device, session.getId(), session.getAccountId(), session.getPlatform(), kind, session.getStartedMs(), nowMs,
          durationMs, dueMs, missed, ingestedMs);
    }
  }
}
