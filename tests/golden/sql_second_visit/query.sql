-- Who was in the shop twice within a day and had paid for nothing in between, and where.
WITH visits AS (SELECT visitor, entered_at, shop FROM doors WHERE shop <> '{closed}')
SELECT first.shop, count(*) AS times, max(date_diff('minute', first.entered_at, second.entered_at)) AS longest
FROM visits first JOIN visits second ON first.visitor = second.visitor AND first.shop = second.shop
WHERE second.entered_at > first.entered_at
  AND second.entered_at <= first.entered_at + INTERVAL '12' HOUR
  AND NOT EXISTS (
    SELECT 1 FROM payments p
    WHERE p.visitor = first.visitor AND p.amount > 0.5
      AND p.paid_at > first.entered_at AND p.paid_at < second.entered_at)
GROUP BY first.shop
HAVING count(*) > 1 OR first.shop = 'south'
ORDER BY first.shop
