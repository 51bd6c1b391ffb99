"""Our model and tokenizer as Hugging Face's transformers has them: other code, same weights."""

import transformers
from tokenizers.processors import TemplateProcessing

from pipeline.model import hf_config, hf_folder


def persimmon(model, *, length):
    """The same function as a model of transformers, in float32 and ready for evaluation."""
    values = hf_config.persimmon_config(model.shape, model.vocabulary, length)
    made = transformers.PersimmonForCausalLM(transformers.PersimmonConfig(**values)).eval()
    made.load_state_dict(hf_config.persimmon_weights(model), strict=False)
    made.tie_weights()
    return made


def pieces(tokenizer):
    """The same tokenizer, which puts the document start in front where it is asked to."""
    fast = hf_folder.convert_tokenizer(tokenizer.path)
    end = fast.id_to_token(tokenizer.eos)
    start = [(end, tokenizer.eos)]
    fast.post_processor = TemplateProcessing(single=f"{end} $A", special_tokens=start)
    special = dict.fromkeys(("bos_token", "eos_token", "pad_token"), end)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, **special, clean_up_tokenization_spaces=False
    )
