# docker build -t cule . && docker run --rm cule check --device cpu
# For CPUs; on a GPU install the wheel (docs/wheels.md) in an image with the driver's libraries.
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS tools
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make \
    && rm -rf /var/lib/apt/lists/*

FROM tools AS build
COPY . /src
RUN pip wheel --no-cache-dir --no-deps -C cmake.define.CULE_CUDA=OFF -w /wheels /src

FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[roms]" && useradd --create-home player
USER player
WORKDIR /home/player
ENTRYPOINT ["cule"]
CMD ["info"]
