"""The API of `import segmeter`: one module per thing that people do."""
