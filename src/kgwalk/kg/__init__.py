"""Knowledge graphs: the store on disk, its build, views over it, names, remote graphs."""
