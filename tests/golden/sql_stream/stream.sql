-- Sensors that warm up and then shake, each within ten minutes, with the name of the place.
SELECT m.sensor, places.name, m.warm, m.shaking
FROM (SELECT * FROM readings WHERE value IS NOT NULL) MATCH_RECOGNIZE (
  PARTITION BY sensor ORDER BY at, seq
  MEASURES LAST(WARM.value) AS warm, count(SHAKE.*) AS shaking, PREV(FIRST(value)) AS before
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (START_ROW WARM{2,} SHAKE+) WITHIN INTERVAL '10' MINUTE
  DEFINE WARM AS value > PREV(value) AND kind = 'heat', SHAKE AS kind = 'shock' AND value > 2 * WARM.value
) AS m
LEFT JOIN places ON places.sensor = m.sensor
WHERE m.before > 0
