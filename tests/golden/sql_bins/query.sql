-- Boxes are filled until the next thing would be too heavy; things that fit in no box are shown, too.
SELECT * FROM things MATCH_RECOGNIZE (
  PARTITION BY upper(shelf) ORDER BY at
  MEASURES MATCH_NUMBER() AS box, sum(weight) AS so_far, FINAL sum(weight) AS total, PREV(weight) AS before,
           CLASSIFIER() AS kind
  ALL ROWS PER MATCH WITH UNMATCHED ROWS
  PATTERN (FIRST_ONE MORE*) WITHIN 10
  SUBSET ALL_OF_IT = (FIRST_ONE, MORE)
  DEFINE FIRST_ONE AS weight <= 10, MORE AS sum(ALL_OF_IT.weight) <= 10.0 AND MORE.at - FIRST(FIRST_ONE.at) < 5
)
