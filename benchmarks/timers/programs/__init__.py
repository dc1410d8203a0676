"""Whole programs: servers whose connections have an idle timeout, and the clients that load them, each in a process."""
