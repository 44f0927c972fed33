"""The parts of `Holdfast`: each module has the methods of one kind, and all share what `OpenStore` opens."""
