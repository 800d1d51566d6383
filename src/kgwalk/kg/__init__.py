"""Knowledge graphs: the `Graph` protocol, the store on disk and its build, views, finding names, remote graphs."""
