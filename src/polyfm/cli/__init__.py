"""The command line: ``polyfm fit``, ``predict``, ``evaluate``, ``explain`` and ``info``."""
