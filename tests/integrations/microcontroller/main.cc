
#include "model_settings.h"
int main() {
  ModelOpResolver resolver;
  return RegisterModelOps(resolver) == kTfLiteOk && kModelData[4] == 'T' ? 0 : 1;
}
