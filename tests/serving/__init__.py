"""The tables of players and days: against an oracle, after corrections, after kills."""
