"""The manifest of promises: what README and docs guarantee, sentence by sentence, with the tests that hold it."""
