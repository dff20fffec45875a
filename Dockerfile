# vsweep in a container. BASE is the image that it runs in: one with vLLM, if plans are to launch servers.
#     docker build -t vsweep --build-arg BASE=vllm/vllm-openai:latest .
ARG BASE=debian:bookworm-slim

FROM rust:1.95-slim-bookworm AS build
# `vsweep --version` names the commit, which git tells.
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked

FROM ${BASE}
COPY --from=build /src/target/release/vsweep /usr/local/bin/vsweep
WORKDIR /work
ENTRYPOINT ["vsweep"]
