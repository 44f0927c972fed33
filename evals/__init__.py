"""The end-to-end evaluation: coding tasks that agents solve through `deliver`, undisturbed and killed."""
