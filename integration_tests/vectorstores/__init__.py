"""Vector stores of LangChain and LlamaIndex on lakebed: `make frameworks`."""
