"""What models and data sets say of themselves: labels and features, certificates verified, the label graph."""
