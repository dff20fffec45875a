# vsweep in a container. BASE is the image that it runs in: one with vLLM, if plans are to launch servers.
#     docker build -t vsweep --build-arg BASE=vllm/vllm-openai:latest .
ARG BASE=debian:bookworm-slim

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked

FROM ${BASE}
COPY --from=build /src/target/release/vsweep /usr/local/bin/vsweep
WORKDIR /work
ENTRYPOINT ["vsweep"]
