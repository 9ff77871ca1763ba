"""From a bound query to the steps of a job: operators, rules, strategies, costs."""
