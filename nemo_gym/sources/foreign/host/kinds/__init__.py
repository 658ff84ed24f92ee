"""The kinds of foreign environments, a module each, which imports the packages of its kind."""
