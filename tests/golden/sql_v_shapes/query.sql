-- Prices that fall and rise again, of shares that have a name.
WITH named AS (SELECT * FROM ticker JOIN shares USING (symbol) WHERE name <> '{none}')
SELECT name, start_day, bottom, end_day, round(100.0 * (peak - bottom) / bottom, 1) AS gain
FROM named MATCH_RECOGNIZE (
  PARTITION BY symbol, name ORDER BY day DESC NULLS LAST
  MEASURES FIRST(day) AS end_day, LAST(UP.price + 0) AS bottom, LAST(day) AS start_day, A.price AS peak
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO LAST DOWN
  PATTERN (^ {- SKIPPED*? -} A UP+ DOWN+ | A UP+ DOWN+)
  DEFINE UP AS price < PREV(price), DOWN AS price > PREV(price)
) AS v
ORDER BY name, start_day
