"""Knowledge graphs: the store on disk, views over it, remote graphs, and how sources become a store."""
