"""Values that every room uses: durations of a configuration, exact fractions, keyed pseudonyms."""
