"""The whole product on its real parts."""
