class Teapot3_5ForCausalLMMTP:
    pass


EntryClass = Teapot3_5ForCausalLMMTP
