#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs each ONNX model in stages and as a whole, and lists those whose results differ. Models that cannot be cut into so
# many stages, or that the engine does not know, are listed with the reason.
#   sh infer_models.sh PROGRAM MODEL.onnx...     PROGRAM is frameworks_onnx_infer or frameworks_onnx_infer_openvino
program=$1
shift
equal=0 status=0
for model; do
  last=$(timeout 300 "$program" "$model" 2>&1 | grep -v '^ *$' | tail -n 1 | cut -c 1-200)
  case $last in
    *" results of "*" stages equal the whole's"*)
      made=${last%% *} of=${last#* of }
      if [ "$made" = "${of%% *}" ]; then
        equal=$((equal + 1))
      else
        echo "DIFFERENT: $(basename "$model"): $last"
        status=1
      fi
      ;;
    *) echo "not run: $(basename "$model"): ${last:-the engine crashed}" ;;
  esac
done
echo "$equal models give the results of the whole"
[ "$equal" -gt 0 ] || status=1
exit "$status"
