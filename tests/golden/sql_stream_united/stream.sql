-- A sensor that is tampered with: it is moved while a burst of shocks lasts, or within an hour of its beginning.
WITH bursts AS (
  SELECT sensor, since, ended
  FROM readings MATCH_RECOGNIZE (
    PARTITION BY sensor ORDER BY at
    MEASURES FIRST(at) AS since, LAST(at) AS ended
    PATTERN (SHOCK{3,}) WITHIN INTERVAL '10' MINUTE
    DEFINE SHOCK AS kind = 'shock'
  )
)
SELECT sensor, since, moved
FROM (
  SELECT sensor, since AS at, 'burst begins' AS what FROM bursts
  UNION ALL
  SELECT sensor, ended, 'burst ends' FROM bursts
  UNION ALL
  SELECT sensor, at, what FROM moves WHERE what <> 'test'
) MATCH_RECOGNIZE (
  PARTITION BY sensor ORDER BY at
  MEASURES B.at AS since, M.at AS moved
  PATTERN (B E? M E?) WITHIN INTERVAL '1' HOUR
  DEFINE B AS what = 'burst begins', E AS what = 'burst ends', M AS what = 'moved'
)
