-- Prices that fall and rise again: where a V begins, its bottom, and its end.
SELECT symbol, start_day, bottom, end_day, round(100.0 * (peak - bottom) / bottom, 1) AS gain
FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES A.day AS start_day, LAST(DOWN.price) AS bottom, LAST(UP.day) AS end_day, LAST(UP.price) AS peak
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO LAST UP
  PATTERN (A DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
)
ORDER BY symbol, start_day
