"""What is known: vocabulary, architectures, findings and their evidence. Imports nothing of the house."""
