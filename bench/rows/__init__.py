"""The rows of the table: each module measures one topic."""
