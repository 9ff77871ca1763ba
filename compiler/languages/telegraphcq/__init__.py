"""TelegraphCQ's event operators: SELECT … FROM streams PARTITION BY … EVENT FOLLOWS(…) WHERE …"""
