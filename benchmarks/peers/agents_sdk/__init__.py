"""Sessions of the OpenAI Agents SDK."""
