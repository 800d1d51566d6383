"""Knowledge graphs: the `Graph` protocol, the store and its build, views, finding names, remote graphs."""
