"""transformers, accelerate and peft on tiny models from configurations: nothing is fetched."""

import importlib.util

import pytest

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed", allow_module_level=True)
import transformers

SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}


def bert():
    config = transformers.BertConfig(**SMALL, intermediate_size=37, max_position_embeddings=64)
    return transformers.BertForMaskedLM(config)


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, **WORDS
    )
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        **SMALL, **WORDS, num_key_value_heads=2, intermediate_size=37, max_position_embeddings=64
    )
    return transformers.LlamaForCausalLM(config)


def t5():
    config = transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


@pytest.mark.library("transformers")
@pytest.mark.parametrize("make", [bert, gpt2, llama, t5])
def test_training_and_generation(torch, falls, make):
    """Training of BERT, GPT-2, Llama and T5; `generate` greedy, by beams, by samples."""
    model = make()
    ids = torch.randint(2, 99, (2, 7))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    model.eval()

    def loss():
        return model(input_ids=ids, attention_mask=mask, labels=ids).loss

    falls(model.parameters(), loss, torch.optim.AdamW, lr=1e-3)
    if make is bert:
        return
    whole = torch.ones_like(ids)
    ways = [
        {},
        {"use_cache": False},
        {"num_beams": 3},
        {"do_sample": True, "top_k": 5, "top_p": 0.9},
    ]
    made = [model.generate(ids, attention_mask=whole, max_new_tokens=5, **way) for way in ways]
    assert torch.equal(made[0], made[1])  # the cache changes nothing
    assert all(out.shape[0] == 2 and out.shape[1] >= 2 for out in made)


#: What each model is loaded by, and what it is asked for.
AUTO = {bert: "MaskedLM", gpt2: "CausalLM", llama: "CausalLM", t5: "Seq2SeqLM"}


def answer(model, ids):
    more = {"decoder_input_ids": ids} if isinstance(model, transformers.T5PreTrainedModel) else {}
    return model.eval()(input_ids=ids, **more).logits


def same_model(torch, one, other, ids, tolerance=1e-5):
    """Weights have equal bits; the second call may be machine code, which rounds by itself."""
    state = other.state_dict()
    assert all(torch.equal(t, state[key]) for key, t in one.state_dict().items())
    assert torch.allclose(answer(one, ids), answer(other, ids), atol=tolerance)


@pytest.mark.library("transformers")
@pytest.mark.parametrize("make", [bert, gpt2, llama, t5])
def test_saving_and_loading(torch, tmp_path, make):
    """`save_pretrained` and `from_pretrained`, also as bfloat16."""
    model = make()
    model.save_pretrained(tmp_path)
    loader = getattr(transformers, f"AutoModelFor{AUTO[make]}")
    ids = torch.randint(2, 99, (1, 5))
    again, told = loader.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert all(t.device.type == "cpu" for t in again.state_dict().values())
    same_model(torch, model, again, ids)
    half = loader.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert half.dtype is torch.bfloat16
    same_model(torch, model.bfloat16(), half, ids, 2e-2)


@pytest.mark.library("transformers")
def test_loading_into_a_model_of_other_heads(torch, tmp_path):
    """Loading into a model of other heads."""
    bert().save_pretrained(tmp_path)
    loader = transformers.AutoModelForSequenceClassification
    made, told = loader.from_pretrained(tmp_path, num_labels=3, output_loading_info=True)
    assert "classifier.weight" in told["missing_keys"]
    ids = torch.randint(2, 99, (2, 5))
    logits = made.eval()(input_ids=ids).logits
    assert logits.shape == (2, 3)
    assert torch.isfinite(logits).all()
    assert made.classifier.weight.std() > 0  # was initialized, after the device meta


@pytest.mark.library("transformers")
def test_models_without_data(torch):
    """Models on the device `meta`."""
    with torch.device("meta"):
        model = llama()
    assert {p.device.type for p in model.parameters()} == {"meta"}
    logits = model(input_ids=torch.zeros((2, 7), dtype=torch.int64, device="meta")).logits
    assert logits.is_meta
    assert logits.shape == (2, 7, 99)
    real = llama().eval()
    model.load_state_dict(real.state_dict(), assign=True)
    assert {p.device.type for p in model.parameters()} == {"cpu"}


@pytest.mark.library("accelerate")
def test_empty_weights_of_accelerate(library, torch, tmp_path):
    """`init_empty_weights`, `infer_auto_device_map`, `load_checkpoint_and_dispatch`."""
    accelerate = library("accelerate")
    real = llama().eval()
    real.save_pretrained(tmp_path)
    with accelerate.init_empty_weights():
        model = llama().eval()
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert {b.device.type for b in model.buffers()} == {"cpu"}
    device_map = accelerate.infer_auto_device_map(model, max_memory={"cpu": "1GB"})
    assert set(device_map.values()) == {"cpu"}
    made = accelerate.load_checkpoint_and_dispatch(model, tmp_path, device_map=device_map)
    same_model(torch, real, made, torch.randint(2, 99, (1, 5)))
    with accelerate.init_empty_weights(include_buffers=True):
        model = llama()
    assert {t.device.type for t in (*model.parameters(), *model.buffers())} == {"meta"}


@pytest.mark.library("accelerate")
def test_a_checkpoint_on_disk_of_accelerate(library, torch, tmp_path):
    """`cpu_offload`."""
    accelerate = library("accelerate")
    real = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    expected = real(x)
    accelerate.cpu_offload(real, execution_device=torch.device("cpu"))
    assert torch.equal(real(x), expected)
    assert real[0].weight.is_meta  # outside of the call


@pytest.mark.library("transformers")
def test_trainer(library, torch, tmp_path):
    """`Trainer` with evaluation and resuming."""
    library("accelerate")
    ids = torch.randint(2, 99, (16, 7))
    data = [{"input_ids": row, "labels": row} for row in ids]
    options = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=2, per_device_train_batch_size=4, report_to=[],
        use_cpu=True, logging_steps=1, learning_rate=1e-2, disable_tqdm=True, save_steps=4,
    )  # fmt: skip
    trainer = transformers.Trainer(gpt2(), options, train_dataset=data, eval_dataset=data)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
    trainer.train(resume_from_checkpoint=True)


@pytest.mark.library("accelerate")
def test_accelerate(library, torch):
    """`Accelerator`: accumulation, clipping, schedules."""
    accelerate = library("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Linear(4, 1)
    x = torch.randn(32, 4)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1)), 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
    losses = []
    for _ in range(3):
        for inputs, target in data:
            with accelerator.accumulate(model):
                loss = (model(inputs)[:, 0] - target).square().mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert accelerator.gather(torch.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.library("peft")
def test_peft(library, torch, falls, tmp_path):
    """LoRA: training, saving, merging."""
    peft = library("peft")
    base = gpt2()
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True)
    model = peft.get_peft_model(base, config)
    trained = [p for p in model.parameters() if p.requires_grad]
    assert 0 < len(trained) < len(list(model.parameters()))
    ids = torch.randint(2, 99, (2, 7))
    model.eval()
    falls(trained, lambda: model(input_ids=ids, labels=ids).loss, lr=1e-2)
    want = model(input_ids=ids).logits
    model.save_pretrained(tmp_path)
    merged = model.merge_and_unload()
    assert torch.allclose(merged(input_ids=ids).logits, want, atol=1e-4)
