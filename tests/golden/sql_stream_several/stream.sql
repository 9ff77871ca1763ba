-- Alarms of two kinds, from one stream: sensors that warm up by ten degrees, and bursts of shocks, three in an hour.
SELECT sensor, 'warm' AS alarm, since, until
FROM readings MATCH_RECOGNIZE (
  PARTITION BY sensor ORDER BY at
  MEASURES FIRST(at) AS since, LAST(at) AS until, LAST(UP.value) - FIRST(value) AS by
  PATTERN (LOW UP+) WITHIN INTERVAL '1' DAY
  DEFINE UP AS kind = 'heat' AND value > PREV(value)
)
WHERE by > 10
UNION ALL
SELECT sensor, 'burst', since, until
FROM (
  SELECT sensor, at AS since, ended
  FROM readings MATCH_RECOGNIZE (
    PARTITION BY sensor ORDER BY at
    MEASURES FIRST(at) AS at, LAST(at) AS ended
    PATTERN (SHOCK STILL*) WITHIN INTERVAL '10' MINUTE
    DEFINE SHOCK AS kind = 'shock', STILL AS kind <> 'shock'
  )
) MATCH_RECOGNIZE (
  PARTITION BY sensor ORDER BY ended
  MEASURES FIRST(since) AS since, LAST(ended) AS until
  PATTERN (SHOCK{3}) WITHIN INTERVAL '1' HOUR
)
